"""The embedded PostgreSQL by hand:  python -m config.postgres start | stop | url"""

import sys

from config.postgres import PostgresError, locate_home, read_status, start, stop_postmaster


def main(command: str) -> int:
    if command == "start":
        print(start(detached=True).url)
    elif command == "stop":
        home = locate_home()
        stop_postmaster(home, None)
        (home.path / "detached").unlink(missing_ok=True)
    elif command == "url":
        home = locate_home()
        print(home.url)
        return 0 if read_status(home) == "ready" else 1
    else:
        print("Say one of: start, stop, url.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else ""))
    except PostgresError as problem:
        sys.exit(str(problem))
