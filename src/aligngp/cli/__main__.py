"""``python -m aligngp.cli``."""

from aligngp.cli import main

if __name__ == "__main__":
    main()
