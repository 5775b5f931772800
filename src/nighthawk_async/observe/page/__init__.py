"""The page that shows a tree: its files, the data that it reads, and the page as one file."""
