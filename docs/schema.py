"""Writes `schema.md`: a picture of the tables for each chapter of `schema.sql`. `make schema` runs it."""  # noqa: INP001  a script

import re
import sys
from dataclasses import dataclass
from pathlib import Path

SCHEMA = Path(__file__).parents[1] / "src" / "roomlore" / "db" / "schema.sql"

CHAPTER = re.compile(r"^-{99}\n-- (.+?)\n", re.MULTILINE)
TABLE = re.compile(r"((?:^--[^\n]*\n)*)^create table (\w+) \(\n(.*?)^\)[^;]*;", re.MULTILINE | re.DOTALL)
COLUMN = re.compile(r'^  "?(\w+)"? ([a-z0-9]+(?:\[\])?)(?=[ ,\n])(.*)', re.MULTILINE)
KEY = re.compile(r"^  primary key \((.*?)\)", re.MULTILINE)
REFERENCE = re.compile(r"^  foreign key \(org_id, (\w+)\) references (\w+)", re.MULTILINE)
#: Words that begin a line of a table and name no column.
CLAUSES = {"primary", "foreign", "unique", "check", "constraint"}

INTRODUCTION = """\
# Tables

`make schema` writes this page from `src/roomlore/db/schema.sql`, which says more: every column, index, policy and
function stands there with its reason. Pictures leave out `org_id`, which every table of an org has and every key begins with.
Tables without columns are drawn in another picture.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its type, and whether a row may lack it."""

    name: str
    kind: str
    is_nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as the pictures show it."""

    name: str
    #: What stands above it; may be empty.
    comment: str
    columns: tuple[Column, ...]
    #: Its primary key, without the org.
    key: frozenset[str]
    #: The column, and the table that it points to.
    references: tuple[tuple[str, str], ...]


def chapters(text: str) -> list[tuple[str, list[Table]]]:
    """Return the title and the tables of each chapter that has tables."""
    _, *parts = CHAPTER.split(text)
    found = [(title, tables(body)) for title, body in zip(parts[::2], parts[1::2], strict=True)]
    return [(title, held) for title, held in found if held]


def tables(body: str) -> list[Table]:
    """Return the tables of a chapter in their order."""
    return [_table(*match.groups()) for match in TABLE.finditer(body)]


def _table(comment: str, name: str, body: str) -> Table:
    columns = [
        Column(name=column, kind=kind, is_nullable="not null" not in rest and "primary key" not in rest)
        for column, kind, rest in COLUMN.findall(body)
        if column not in CLAUSES | {"org_id"}
    ]
    key = KEY.search(body)
    alone = {column for column, _, rest in COLUMN.findall(body) if "primary key" in rest}
    return Table(
        name=name,
        comment=" ".join(line.removeprefix("--").strip() for line in comment.splitlines()),
        columns=tuple(columns),
        key=frozenset(key[1].split(", ") if key else alone) - {"org_id"},
        references=tuple(REFERENCE.findall(body)),
    )


def picture(held: list[Table]) -> str:
    """Return the entity-relationship diagram of some tables, in Mermaid's language."""
    lines = ["erDiagram"]
    for table in held:
        pointing = dict(table.references)
        lines.append(f"  {table.name} {{")
        for column in table.columns:
            marks = ["PK"] * (column.name in table.key) + ["FK"] * (column.name in pointing)
            lines.append(f"    {column.kind} {column.name} {','.join(marks)}".rstrip())
        lines.append("  }")
    for table in held:
        nullable = {column.name for column in table.columns if column.is_nullable}
        for column, there in table.references:
            one = "|o" if column in nullable else "||"
            many = "o|" if table.key == {column} else "o{"
            lines.append(f"  {there} {one}--{many} {table.name} : {column}")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page for a schema."""
    parts = [INTRODUCTION]
    for title, held in chapters(text):
        parts.append(f"## {title.split(':')[0].split('. ')[0]}\n")
        parts += [f"- `{table.name}`: {table.comment}" for table in held if table.comment]
        if any(table.comment for table in held):
            parts.append("")
        parts.append(f"```mermaid\n{picture(held)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page(SCHEMA.read_text(encoding="utf-8")))
