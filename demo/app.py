"""The demo's service: a shop of books over HTTP, with a template engine and SQLite. Usage: app.py DATABASE

Prints "PORT N PID P" when it listens on the loopback address.
"""
import os
import random
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

from jinja2 import Environment

PAGE = """<!doctype html>
<title>{{ title }}</title>
<h1>{{ title }}</h1>
<table>
{% for book in books %}
<tr class="{{ loop.cycle('odd', 'even') }}">
  <td>{{ book.title|title }}</td><td>{{ book.author }}</td>
  <td>{{ "%.2f"|format(book.price) }}</td><td>{{ book.stars|stars }}</td>
</tr>
{% else %}<tr><td>Nothing found.</td></tr>
{% endfor %}
</table>
<p>{{ books|length }} books, {{ books|sum(attribute="price")|round(2) }} in all.</p>
"""
WORDS = "river stone night garden silent winter letter bridge distant paper harbour morning".split()
AUTHORS = ["A. Abel", "B. Brandt", "C. Castell", "D. Duras", "E. Ekman", "F. Fuchs"]

environment = Environment(autoescape=True)
environment.filters["stars"] = lambda count: "*" * count
template = environment.from_string(PAGE)
local = threading.local()


def fill(path, books=3000):
    """Makes the shop's database."""
    chance = random.Random(1)
    rows = [(" ".join(chance.sample(WORDS, 3)), chance.choice(AUTHORS), chance.uniform(5, 50), chance.randint(1, 5))
            for _ in range(books)]
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE book (title TEXT, author TEXT, price REAL, stars INTEGER)")
        db.executemany("INSERT INTO book VALUES (?, ?, ?, ?)", rows)


def database():
    """This thread's connection."""
    if not hasattr(local, "db"):
        local.db = sqlite3.connect(sys.argv[1])
        local.db.row_factory = sqlite3.Row
        local.db.create_function("relevance", 2, relevance, deterministic=True)
    return local.db


def relevance(title, words):
    """How well a title matches: called by SQLite for each row."""
    found = sum(title.count(word) for word in words.split())
    return found / (1 + abs(len(title) - len(words)) / 10)


def search(words):
    query = "SELECT * FROM book WHERE title LIKE ? ORDER BY relevance(title, ?) DESC LIMIT 60"
    return database().execute(query, ("%" + words.split()[0] + "%", words)).fetchall()


def by_author(author):
    return database().execute("SELECT * FROM book WHERE author = ? ORDER BY price LIMIT 60", (author,)).fetchall()


def recommend(books):
    """Orders books by stars for the money, best first."""
    return sorted(books, key=lambda book: (-book["stars"] / book["price"], book["title"]))


def page(path, query):
    if path == "/search":
        words = query.get("q", ["river"])[0]
        return template.render(title="Books like " + words, books=recommend(search(words)))
    if path == "/author":
        author = query.get("name", AUTHORS)[0]
        return template.render(title="Books by " + author, books=by_author(author))
    return template.render(title="Welcome", books=recommend(by_author(random.choice(AUTHORS))))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        url = urlparse(self.path)
        body = page(url.path, parse_qs(url.query)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    fill(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print("PORT %d PID %d" % (server.server_address[1], os.getpid()), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
