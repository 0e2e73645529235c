"""The file that names the account of each character."""

from pathlib import Path

import pytest

from roomlore.domain.errors import BadInput
from roomlore.legacy.characters import read_characters

IDS = {"elena": "200000000000000001", "marcus": "7"}
FILES = {
    "plain.toml": 'elena = "200000000000000001"\nmarcus = 7\n',
    "table.toml": '[agents]\nelena = "200000000000000001"\nmarcus = "7"\n',
    "headed.csv": "name,id\nelena,200000000000000001\n\nmarcus, 7\n",
    "bare.csv": "\ufeffelena,200000000000000001\nmarcus,7\n",
}
BROKEN = {
    "broken.toml": "elena = ",
    "list.toml": "agents = []",
    "nothing.toml": 'elena = ""',
    "true.toml": "elena = true",
    "short.csv": "elena\n",
    "bytes.csv": b"\xff\xfe\xff",
    "long.csv": f"elena,{'9' * 300}",
}


@pytest.mark.parametrize("name", FILES)
def test_each_character_has_its_account(tmp_path: Path, name):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    assert read_characters(tmp_path / name) == IDS


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_says_no_account_is_refused(tmp_path: Path, name):
    text = BROKEN[name]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput, match=name):
        read_characters(tmp_path / name)
