"""The demo's visitors: 4 at a time, for so many seconds. Usage: load.py PORT SECONDS

Prints READY once the first pages were answered, and how many were answered in the end.
"""
import http.client
import sys
import threading
import time
from urllib.parse import quote

PATHS = ["/", "/search?q=" + quote("river stone"), "/author?name=" + quote("D. Duras"), "/search?q=garden",
         "/search?q=" + quote("winter letter bridge")]


def visit(port, end, answers, ready):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    count = 0
    while time.monotonic() < end:
        connection.request("GET", PATHS[count % len(PATHS)])
        response = connection.getresponse()
        body = response.read()
        if response.status != 200 or b"<table>" not in body:
            raise SystemExit("a page was not answered: status %d" % response.status)
        count += 1
        ready.set()
    answers.append(count)


def main():
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    answers, ready = [], threading.Event()
    visitors = [threading.Thread(target=visit, args=(port, end, answers, ready)) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    if not ready.wait(30):
        raise SystemExit("the service does not answer")
    print("READY", flush=True)
    for visitor in visitors:
        visitor.join()
    print("%d pages in %g s" % (sum(answers), seconds), flush=True)


if __name__ == "__main__":
    main()
