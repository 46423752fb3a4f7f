"""Positions in a JSON text: the line and column of the value that a problem's path names.

A text is read by Python's json, which records no positions. They are found again for the few paths that are asked for: the objects and
arrays along a path are scanned member by member, and json's scanner skips the rest. A text without problems costs nothing, and one
with many scans a bounded number of members.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from json import JSONDecoder
from typing import TYPE_CHECKING, Any

from dmlpy.messages.json_nesting import items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Key = str | int
_MOST_NESTED = 3
"""The most nested holders: a node's `Desc`, the `Operator` in it, and the operator's `Desc`."""
_MOST_WALKED = 50_000
"""The most members of a text that are scanned: further positions are those of the enclosing object or array."""
_BLANKS = re.compile(r"[ \t\r\n]*+")
# A key with its colon, any other string, and the ends of objects. Possessive repeats: a string is passed once.
_KEYS = re.compile(r'"(?P<key>(?:[^"\\]++|\\.)*+)"(?P<colon>[ \t\r\n]*+:)?+|(?P<open>\{)|\}', re.DOTALL)
_STEP = re.compile(r"\.?(?:\[(?P<index>\d+)\]|(?P<name>[^.\[]+))")


@dataclass(frozen=True, order=True)
class Position:
    """A position in a text.

    Attributes:
        line: the line, from 1 on.
        column: the column in characters, from 1 on.
    """

    line: int
    column: int


@dataclass(frozen=True)
class _Member:
    """A member of an object or an element of an array: the positions of its key and its value. An element's key is the element."""

    key: int
    value: int


class Positions:
    """The positions in a text that is strict JSON up to the end of its first value: comments and trailing commas are already blanked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = JSONDecoder().raw_decode
        self._known: dict[int, dict[Key, _Member]] = {}
        self._plain_known: dict[int, dict[str, _Member]] = {}
        self._left = _MOST_WALKED
        self._last = (0, 1)

    def at(self, offset: int) -> Position:
        """The position of a character."""
        # Problems come in the order of the text, nearly: lines are counted on from the last place.
        last, line = self._last if self._last[0] <= offset else (0, 1)
        line += self._text.count("\n", last, offset)
        self._last = (offset, line)
        return Position(line, offset - self._text.rfind("\n", 0, offset))

    def of(self, location: Sequence[Key], path: str = "", *, key: bool = False, outer: bool = False) -> Position:
        """The position of the value that a path names, or of the nearest enclosing one that exists.

        Args:
            location: keys and indices from the root to the part of the file that the path begins in.
            path: a problem's path, in Python's or in C's spelling. What is nested in `Desc` or `Operator` counts as its holder's.
            key: the position of the member's key instead of its value; the value's where the last step is not found.
            outer: whether members next to `Desc` come before those inside it.
        """
        place = _Member(0, self._skip(0))
        for step in location:
            member = self._members(place.value).get(step)
            if member is None:
                return self.at(place.value)
            place = member
        rest = path
        while rest:
            match = _STEP.match(rest)
            members = self._members(place.value)
            if rest in members and (match is None or match.end() < len(rest)):  # a key may hold dots and brackets itself
                return self.at(members[rest].key if key else members[rest].value)
            if match is None:
                return self.at(place.value)
            rest = rest[match.end() :]
            if match["index"] is not None and self._text[place.value] != "[":
                continue  # one value stands for an array of one
            step = match["name"] if match["index"] is None else int(match["index"])
            member = self._find_member(place.value, step, outer)
            if member is None:
                return self.at(place.value)
            place = member
        return self.at(place.key if key else place.value)

    def repeated_keys(self) -> Iterator[tuple[str, Position]]:
        """The repeated keys of objects, in the order of the text."""
        seen: list[set[str] | None] = []  # of each object around a place; None before its first key
        for match in _KEYS.finditer(self._text, self._skip(0)):
            if match["colon"] is not None:
                key = match["key"]
                if "\\" in key:
                    key = self._decode(f'"{key}"')[0]
                if seen[-1] is None:
                    seen[-1] = {key}
                elif key in seen[-1]:
                    yield key, self.at(match.start())
                else:
                    seen[-1].add(key)
            elif match["open"]:
                seen.append(None)
            elif match["key"] is None:
                seen.pop()
                if not seen:
                    return

    def _find_member(self, start: int, step: Key, outer: bool, depth: int = 0) -> _Member | None:
        if isinstance(step, int):
            return self._members(start).get(step)
        nested = (self._find_spelling(start, holder) for holder in ("desc", "operator")) if depth < _MOST_NESTED else ()
        inside = [member for holder in nested if holder and (member := self._find_member(holder.value, step, outer, depth + 1))]
        direct = [member] if (member := self._find_spelling(start, step)) else []
        return next(iter([*direct, *inside] if outer else [*inside, *direct]), None)

    def _find_spelling(self, start: int, name: str) -> _Member | None:
        """The member of this name, or else of the same letters in another spelling: `sizes`, `Sizes`; `data_type`, `DataType`."""
        members = self._members(start)
        if name in members:
            return members[name]
        if start not in self._plain_known:
            # Of two that differ in spelling alone the first one counts.
            self._plain_known[start] = {_plain(key): member for key, member in reversed(members.items())}
        return self._plain_known[start].get(_plain(name))

    def _members(self, start: int) -> dict[Key, _Member]:
        if start not in self._known:
            self._known[start] = dict(islice(self._visit(start), self._left))
            self._left -= len(self._known[start])
        return self._known[start]

    def _visit(self, start: int) -> Iterator[tuple[Key, _Member]]:
        """The members of the object or array that begins at `start`; empty for any other value."""
        text = self._text
        if text[start] not in "{[":
            return
        in_object = text[start] == "{"
        place = self._skip(start + 1)
        index = 0
        while text[place] not in "}]":
            key_at, key = place, index
            if in_object:
                key, place = self._decode(text, place)
                place = self._skip(self._skip(place) + 1)  # the colon
            yield key, _Member(key_at, place)
            place = self._skip(self._decode(text, place)[1])
            if text[place] == ",":
                place = self._skip(place + 1)
            index += 1

    def _skip(self, place: int) -> int:
        match: Any = _BLANKS.match(self._text, place)
        end: int = match.end()
        return end


def _plain(name: Key) -> str:
    return str(name).replace("_", "").lower()


def parts(data: Any) -> int:
    """The number of objects and arrays in JSON data."""
    count, waiting = 0, [data]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | list):
            count += 1
            waiting.extend(item for item in items(part) if isinstance(item, dict | list))
    return count
