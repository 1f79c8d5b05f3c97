"""`make kafka`: an Apache Kafka for development.  python -m config.kafka [run | fetch]

`run` fetches the broker if need be, starts it under var/kafka, prints its address and stops it at Ctrl-C; `fetch` only
fetches. KAFKA_PORT changes the port (9092), KAFKA_DATA the folder.
"""

import os
import signal
import sys
import time
from pathlib import Path

from config.kafka import KafkaError, fetch_jars, find_java, start
from config.kafka.jars import STORE
from config.lifeline import tie_to_parent

PORT = 9092


def run() -> int:
    """Run the broker until it is asked to stop, or ends by itself."""
    try:
        port = int(os.environ.get("KAFKA_PORT") or PORT)
    except ValueError:
        raise KafkaError(f"KAFKA_PORT={os.environ['KAFKA_PORT']!r} is not a number.") from None
    if "MAKELEVEL" in os.environ:  # make is our parent, and would leave us behind if it were killed
        tie_to_parent(signal.SIGTERM, os.getppid())()
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)
    find_java()
    print("Fetching Apache Kafka with Maven, unless it is there …", flush=True)
    jars = fetch_jars()
    broker = start(Path(os.environ.get("KAFKA_DATA") or STORE), port=port, jars=jars)
    try:
        print(f"Kafka is ready:  {broker.bootstrap}", flush=True)
        print(f"Its data and its log are in {broker.folder}; the tests use one of their own, or that of", flush=True)
        print(f"KAFKA_BOOTSTRAP={broker.bootstrap}. Ctrl-C stops it.", flush=True)
        while broker.is_alive():
            time.sleep(0.2)
        print(f"Kafka ended by itself; {broker.log} tells why.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        broker.stop()


def main(command: str) -> int:
    if command == "run":
        return run()
    if command == "fetch":
        find_java()
        print(fetch_jars())
        return 0
    print("Say one of: run, fetch.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else "run"))
    except KafkaError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
