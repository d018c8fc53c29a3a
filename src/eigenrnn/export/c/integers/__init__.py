"""Networks in C whose arithmetic is that of whole numbers."""
