"""Asks a server on this machine for pages from 4 threads, for at most 120 s. Usage: load.py PORT PATH…"""
import http.client
import sys
import threading
import time

import target

LIMIT_S = 120


def ask(port, paths, answered):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        for path in paths:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            connection.close()
            if response.status != 200:
                raise SystemExit("%s: status %d" % (path, response.status))
        answered.set()


def main():
    target.live()
    port, paths = int(sys.argv[1]), sys.argv[2:]
    answered = [threading.Event() for _ in range(4)]
    threads = [threading.Thread(target=ask, args=(port, paths, event), daemon=True) for event in answered]
    for thread in threads:
        thread.start()
    for event in answered:
        event.wait()
    target.ready()
    for thread in threads:
        thread.join()


main()
