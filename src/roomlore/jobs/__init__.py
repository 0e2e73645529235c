"""Background jobs that process what was stored; each may be interrupted at any time without loss."""
