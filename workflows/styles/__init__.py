"""The authoring styles: thin adapters that turn an author's code into one `Definition`.

Lives here: the step style (`steps`), and what the styles share about errors. Must not live here: claiming an instance
and writing what became of it. Invariant owned: the engine knows a style by its `Definition` only.
"""
