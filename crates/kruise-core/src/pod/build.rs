//! Making a pod from a template.
