"""Separates what a person wrote in WhatsApp from what the app wrote: files, edit marks, deletions.

The app writes in the language of the phone. So its words are found by their form, above all by the mark U+200E before
them. Android often writes no mark; only there, known words decide.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.fields import non_empty
from roomlore.importers.whatsapp.lines import MARK, bare

#: The app's own lines and file names are shorter.
_MAX_OWN_LINE = 400

_FILE_NAME = r"[^<>\n/\\]{1,200}\.\w{1,8}"
#: "<attached: 0001-PHOTO.jpg>".
_ATTACHED = lazy_pattern(rf"{MARK}?<[^<>:\n]{{1,40}}[:\uff1a] ?(?P<name>{_FILE_NAME})>", most=_MAX_OWN_LINE)
#: "IMG-20240120-WA0001.jpg (file attached)".
_FILE_LINE = lazy_pattern(rf"(?P<name>{_FILE_NAME}) \((?P<words>[^()\d\n]{{3,40}})\)", most=_MAX_OWN_LINE)
_WHATSAPP_FILE = lazy_pattern(r"[A-Z]{3}-\d{8}-WA\d{4,6}\.\w{2,5}")
#: "report.pdf • 12 pages".
_DOCUMENT = lazy_pattern(rf"(?P<name>{_FILE_NAME}) • {MARK}[^\n]*", most=_MAX_OWN_LINE)
#: "<Media omitted>": words alone between angle brackets.
_OMITTED = lazy_pattern(r"<(?P<words>[^<>=/\"'\d\n]{3,80})>")
_EDITED = lazy_pattern(r"<(?P<words>[^<>=/:\uff1a\"\d\n]{3,80})>")
_PLACE = lazy_pattern(
    r"[^:\n]{1,40}: https://maps\.google\.com/\?q=(?P<place>-?\d{1,3}\.\d{1,20},-?\d{1,3}\.\d{1,20})"
)
_MENTION = lazy_pattern("@\u2068([^\u2068\u2069\\n]{1,100})\u2069")

_FILE_WORDS = frozenset({
    "file attached", "datei angehängt", "archivo adjunto", "arquivo anexado", "ficheiro anexado", "fichier joint",
    "file allegato", "bestand bijgevoegd", "файл добавлен", "dosya ekli", "dosya eklendi", "الملف مرفق", "ملف مرفق",
    "फ़ाइल संलग्न है", "फ़ाइल अटैच की गई", "file terlampir", "plik dołączono", "załączono plik", "fil bifogad",
    "ファイル添付", "添付ファイル", "文件附件", "파일 첨부됨",
})  # fmt: skip
_EDIT_WORDS = frozenset({
    "this message was edited", "diese nachricht wurde bearbeitet", "se editó este mensaje.", "se editó este mensaje",
    "mensagem editada", "esta mensagem foi editada", "ce message a été modifié", "questo messaggio è stato modificato",
    "dit bericht is bewerkt", "данное сообщение изменено", "bu mesaj düzenlendi", "تم تعديل هذه الرسالة",
    "इस मैसेज को एडिट किया गया है", "इस मैसेज में बदलाव किया गया", "pesan ini diedit", "ten komunikat został edytowany",
    "このメッセージは編集されました", "此消息已编辑", "이 메시지는 수정되었습니다",
})  # fmt: skip
_DELETED_WORDS = frozenset({
    "this message was deleted", "you deleted this message", "diese nachricht wurde gelöscht",
    "du hast diese nachricht gelöscht", "se eliminó este mensaje", "eliminaste este mensaje", "mensagem apagada",
    "esta mensagem foi apagada", "você apagou esta mensagem", "mensagem eliminada", "ce message a été supprimé",
    "vous avez supprimé ce message", "questo messaggio è stato eliminato", "hai eliminato questo messaggio",
    "dit bericht is verwijderd", "je hebt dit bericht verwijderd", "данное сообщение удалено", "вы удалили данное сообщение",
    "bu mesaj silindi", "bu mesajı sildiniz", "تم حذف هذه الرسالة", "حذفت هذه الرسالة", "لقد حذفت هذه الرسالة",  # noqa: RUF001
    "यह मैसेज हटा दिया गया", "यह मैसेज डिलीट कर दिया गया", "आपने यह मैसेज हटा दिया", "आपने यह मैसेज डिलीट कर दिया",
    "pesan ini telah dihapus", "anda menghapus pesan ini", "ta wiadomość została usunięta", "usunięto tę wiadomość",
    "このメッセージは削除されました", "このメッセージを削除しました", "あなたはこのメッセージを削除しました", "此消息已删除", "你已删除这条消息",
    "삭제된 메시지입니다", "이 메시지를 삭제했습니다",
})  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Content:
    """What a message contains."""

    #: The words of the author.
    body: str = ""
    attachments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    #: The names in mentions that the app marked.
    mentions: list[str] = field(default_factory=list[str])
    edited: bool = False
    deleted: bool = False


def read_content(text: str, files: Container[str] = ()) -> Content:
    """Return what a message contains. `files` are the names of the files beside the chat."""
    content = Content()
    lines = _without_edit_mark(text, content).split("\n")
    if len(lines) == 1 and _plain_words(lines[0]) in _DELETED_WORDS:
        content.deleted = True
        return content
    kept: list[str] = []
    is_poll = len(lines) > 1 and lines[0].startswith(MARK) and any(map(_is_marked_words, lines[1:]))
    for number, line in enumerate(lines):
        own = _own_words(line, content)
        if not number and not is_poll and own:
            own = "" if _take_app_line(own, files, content) else own
        if own or not line:
            kept.append(own.replace(MARK, "") if is_poll else own)
    content.mentions = list(dict.fromkeys(_MENTION.findall(text)))
    content.body = _MENTION.sub(r"@\1", "\n".join(kept)).strip()
    return content


def _is_marked_words(line: str) -> bool:
    return line.startswith(MARK) and not line.startswith(f"{MARK}<")


def _plain_words(line: str) -> str:
    return bare(line).rstrip(".。").casefold()


def _without_edit_mark(text: str, content: Content) -> str:
    """Return the text without the mark at its end that says that it was edited."""
    start = text.rfind("<")
    match = _EDITED.fullmatch(text[start:].rstrip()) if start > 0 else None
    if match is None:
        return text
    before = text[:start]
    is_marked = before.endswith(MARK)
    own = before.removesuffix(MARK).rstrip(" \xa0\u202f")
    # Alone in the text or in its line, such words stand for a file.
    is_alone = not own.strip(MARK) or own.endswith("\n")
    if is_alone or not (is_marked or _plain_words(match["words"]) in _EDIT_WORDS):
        return text
    content.edited = True
    return own


def _own_words(line: str, content: Content) -> str:
    """Return a line without the files that the app names in it."""
    start = line.rfind("<")
    match = _ATTACHED.match(line, max(start - 1, 0)) or _ATTACHED.match(line, start) if start >= 0 else None
    if match is None or match.end() != len(line.rstrip()):
        return line
    before = line[: match.start()].rstrip()
    if before.strip(MARK) and not match[0].startswith(MARK):
        return line
    content.attachments.append(_file(match))
    document = _DOCUMENT.fullmatch(before.strip(MARK))
    if document is not None:
        content.attachments[-1]["title"] = document["name"]
        return ""
    return before.strip(MARK)


def _take_app_line(line: str, files: Container[str], content: Content) -> bool:
    """Return whether the app wrote the first line. The line then becomes an attachment."""
    is_marked = line.startswith(MARK)
    words = bare(line)
    found: dict[str, Any] = {}
    if (match := _FILE_LINE.fullmatch(words)) and (is_marked or _is_file(match, files)):
        found = _file(match)
    elif match := _OMITTED.fullmatch(words):
        found = {"type": "media", "name": match["words"], "missing": True}
    elif match := _DOCUMENT.fullmatch(words):
        found = {"type": "file", "name": match["name"], "missing": True}
    elif match := _PLACE.fullmatch(words):
        found = {"type": "location", "text": match["place"].replace(",", ", ")}
    elif is_marked and words and len(words) <= _MAX_OWN_LINE:
        found = {"type": "notice", "name": words.replace(MARK, "")}
    if found:
        content.attachments.append(found)
    return bool(found)


def _file(match: re.Match[str]) -> dict[str, Any]:
    name = bare(match["name"])
    return {"type": "file"} | non_empty(name=name, url=name)


def _is_file(match: re.Match[str], files: Container[str]) -> bool:
    return bool(
        match["name"] in files
        or _WHATSAPP_FILE.fullmatch(match["name"])
        or match["words"].casefold() in _FILE_WORDS
    )
