"""A small Flask application: a template, some JSON and some work of its own."""
import json

from flask import Flask, jsonify, render_template_string, request

app = Flask(__name__)
PAGE = """<ul>{% for row in rows %}
<li class="{{ loop.cycle('odd', 'even') }}">{{ row.name|upper }}: {{ row.total }}</li>
{% endfor %}</ul>"""


def make_rows(count):
    return [{"name": "row-%d" % i, "total": sum(range(i))} for i in range(count)]


def checksum(text):
    total = 0
    for letter in text:
        total = (total * 31 + ord(letter)) % 1000003
    return total


@app.route("/")
def index():
    return render_template_string(PAGE, rows=make_rows(40))


@app.route("/json")
def as_json():
    rows = make_rows(int(request.args.get("rows", 30)))
    return jsonify(rows=rows, checksum=checksum(json.dumps(rows)))
