"""Tables that come in as files and go out as files."""
