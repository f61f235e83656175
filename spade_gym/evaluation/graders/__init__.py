"""Programs that grade answers. They run in the sandbox's workers, as any program does, and are never imported here."""
