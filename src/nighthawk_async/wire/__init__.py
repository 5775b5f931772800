"""Wire codecs: pure code between the library's own types and a provider's bytes. No I/O."""
