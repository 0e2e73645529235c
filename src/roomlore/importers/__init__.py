"""Foreign exports become neutral records here: one reader per format, each blind to the others."""
