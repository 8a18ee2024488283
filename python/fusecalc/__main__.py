"""python -m fusecalc: the program that this package carries."""

import os
import sys

from fusecalc import program


def main() -> None:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
