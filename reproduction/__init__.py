"""Which claims of the papers our runs bear out: claims as data, archived runs, and RESULTS.md."""
