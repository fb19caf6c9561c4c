"""Pieces of a page that stands alone: one HTML file without scripts, without anything from elsewhere."""

import base64
import html
import pathlib
from collections.abc import Iterable, Mapping, Sequence

STYLE = """
body{font:15px/1.5 system-ui,"Noto Sans CJK SC","PingFang SC","Microsoft YaHei",sans-serif;max-width:76em;margin:2em auto;
padding:0 1.2em;color:#222;background:#fff}
h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.2em;margin:1.8em 0 .5em;border-bottom:2px solid #1450c8;padding-bottom:.15em}
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd;
overflow-wrap:anywhere}th{font-weight:600}thead th{border-bottom:2px solid #999}
table.map td,table.map th{border:0;padding:0;font-size:12px}table.map td{width:1.7em;height:1.7em}
table.map th{padding:0 .4em;font-weight:normal}table.map thead th{writing-mode:vertical-rl}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(22em,1fr));gap:1em 1.5em}
figure{margin:0}figcaption{font-weight:600}figure svg{width:100%;height:auto;font-family:inherit}
.legend{font-size:13px;color:#444}.legend span{margin-right:.8em;white-space:nowrap}.legend b{font-size:10px}
.examples .example{background:#f6f7f9;padding:.6em .9em;margin:.5em 0;border-left:3px solid #ccd;line-height:1.75}
.examples table{font-size:13px;margin-top:.4em}.examples .marked{border:1px solid #99b;border-radius:.3em;padding:.1em .15em}
.examples sup{color:#558;font-size:10px;margin-right:.2em}
ins,del{text-decoration:none;border-radius:.2em;padding:0 .25em}ins.right{background:#cfeed8}ins.truth{background:#dfe8ff}
del{background:#fbd5d5;margin-right:.1em}small{color:#666}
details{margin:.6em 0}summary{cursor:pointer}pre{white-space:pre-wrap;background:#f4f4f4;padding:.7em;font-size:13px}
img{max-width:100%}code{background:#f4f4f4;padding:.1em .3em}
""".replace("\n", "")


def document(title: str, body: str, language: str = "en") -> str:
    """Returns a whole page. `body` is HTML; `title` is text."""
    title = html.escape(title)
    return (
        f"<!doctype html><html lang={html.escape(language)}><meta charset=utf-8>"
        f"<meta name=viewport content='width=device-width'><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1>{body}</html>\n"
    )


def facts(values: Mapping[str, object]) -> str:
    """Returns a table of names and values; both are text."""
    return table([], [[name, value] for name, value in values.items()])


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table of text; the first cell of a row names it. `head` stands above the columns, or is empty."""
    top = "".join(f"<th>{_cell(cell)}</th>" for cell in head)
    body = ""
    for name, *cells in rows:
        body += f"<tr><th>{_cell(name)}</th>{''.join(f'<td>{_cell(cell)}</td>' for cell in cells)}</tr>"
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}{body}</table>"


def _cell(value: object) -> str:
    return "" if value is None else html.escape(str(value))


def picture(path: str) -> str:
    """Returns a PNG file as part of the page."""
    data = base64.b64encode(pathlib.Path(path).read_bytes()).decode()
    return f"<img alt='{html.escape(pathlib.Path(path).stem)}' src='data:image/png;base64,{data}'>"
