//! History of templates: ControllerRevisions, byte for byte as OpenKruise writes them.
