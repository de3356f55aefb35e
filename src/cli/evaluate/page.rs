//! An evaluation as Markdown.
