from mdi.cli import entry_point

entry_point()
