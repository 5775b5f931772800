"""Files that outlive a process, one folder for each released version that wrote them."""
