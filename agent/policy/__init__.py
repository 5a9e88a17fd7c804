"""The policy file: text → typed values, each with file, line and column. Never touches the machine."""
