"""Pages to look at: HTML that needs no network and runs no script but its own."""
