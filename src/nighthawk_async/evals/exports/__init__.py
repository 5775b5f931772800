"""Reports as other programs and people read them: pages, trees, Markdown, JUnit XML, files of other tools."""
