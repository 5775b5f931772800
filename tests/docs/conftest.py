"""What a page's `setup` comments can ask for. An example itself stays as a reader would write it."""
