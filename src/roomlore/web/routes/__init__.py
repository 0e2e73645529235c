"""The pages, a module for each thing that people look at."""
