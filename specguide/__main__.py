"""`python -m specguide` is the command line."""

from specguide.cli import main

main()
