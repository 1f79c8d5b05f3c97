"""Pages for people, made on the server: they work without JavaScript, and nothing of the kernel knows them."""
