"""Tables, categories and players."""
