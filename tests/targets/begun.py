"""A thread that begins with a generator, which C runs with no Python function below it, beside the main thread."""
import _thread
import time

import target


def works():
    end = time.time() + 0.01
    while time.time() < end:
        pass


def generator():
    while True:
        for _ in range(100000):
            pass
        sum(range(200000))
        works()
    yield


def main():
    target.live()
    _thread.start_new_thread(generator().__next__, ())
    target.ready()
    while True:
        works()
        time.sleep(0.01)


main()
