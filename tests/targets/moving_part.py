"""Imported again and again by moving.py."""
from __main__ import step


def begin():
    step()


begin()
