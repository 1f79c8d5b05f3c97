"""The authoring styles: thin adapters that turn an author's code into one `Definition`."""
