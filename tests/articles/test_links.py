"""Which links are asked for at all, and which addresses are connected to."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.articles.links import UnreadableLink, check_address, parse_link

PORTS = frozenset({80, 443})

PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1
    198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1
    ::10.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1
    64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::10.0.0.1 100::1 2001::1
    2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:db8::1 2002:7f00:1:: 2002:a00:1::1
    2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:7f00:1 4000::1
""".split()
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused(address):
    with pytest.raises(UnreadableLink, match="not public"):
        check_address(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_returned_unchanged(address):
    assert str(check_address(address)) == str(
        IPv6Address(address) if ":" in address else IPv4Address(address)
    )


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "1.2.3.4/8"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(UnreadableLink, match="has no address"):
        check_address(address)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.0.0/16"),
        ("::ffff:10.1.2.3", "10.1.0.0/16"),
        ("64:ff9b::10.1.2.3", "10.1.0.0/16"),
        ("fd12::1", "fd12::/16"),
        ("127.0.0.1", "127.0.0.0/8"),
    ],
)
def test_only_allowed_networks_are_added(address, network):
    allowed = (ip_network(network),)
    assert check_address(address, allowed)
    for other in ("10.2.0.1", "fd13::1", "192.168.0.1", "::1"):
        with pytest.raises(UnreadableLink):
            check_address(other, allowed)


def test_a_scoped_address_is_refused():
    with pytest.raises(UnreadableLink):
        check_address("fe80::1%eth0", (ip_network("fe80::/10"),))


@given(st.ip_addresses(v=4))
def test_embedded_addresses_are_checked_like_plain_ones(address):
    def is_refused(text):
        try:
            check_address(text)
        except UnreadableLink:
            return True
        return False

    plain = is_refused(str(address))
    assert is_refused(f"::ffff:{address}") == plain
    assert is_refused(f"64:ff9b::{address}") == plain
    for never in (f"::{address}", f"::ffff:0:{address}", f"2606:4700::5efe:{address}"):
        assert is_refused(never)


@given(st.ip_addresses())
def test_no_address_that_the_library_calls_private_passes(address):
    try:
        passed = check_address(str(address))
    except UnreadableLink:
        return
    assert passed.is_global
    assert not passed.is_loopback
    assert not passed.is_link_local
    assert not passed.is_multicast


@pytest.mark.parametrize(
    "url",
    [
        *("http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://017700000001/"),
        *("http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://1.2.3.4.5/"),
        *("http://256.1.1.1/", "http://a.0x/", "http://①②⑦.⓪.⓪.①.1/", "http://[::1%25eth0]/"),
        *("http://[fe80::1%eth0]/", "http://[::1/", "http://[v1.x]/", "http://[1.2.3.4]/"),
        *("http://a[::1]/", "http://[::1]a/", "http://[::1]a:80/", "http://exa mple.org/"),
        *("http://example.org\\@127.0.0.1/", "http://example.org/\r\nHost: x"),
        *("http://example.org/\u2028", "http://%31%32%37.0.0.1/", "http://-example.org/"),
        *("http://a..b/", "http:///path", "http://", "http://.", "http://example.org:99999/"),
        *("http://example.org:x/", "http://xn--a.org\u200b/", f"http://{'a' * 64}.org/"),
        *(f"http://{'a.' * 130}org/", f"http://example.org/{'a' * 2048}"),
    ],
)
def test_an_oddly_spelt_link_is_refused(url):
    with pytest.raises(UnreadableLink, match="not a plainly spelt address"):
        parse_link(url, PORTS)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.org/", "neither http nor https"),
        ("file:///etc/passwd", "neither http nor https"),
        ("gopher://example.org/", "neither http nor https"),
        ("//example.org/", "neither http nor https"),
        ("", "neither http nor https"),
        ("http://ana@example.org/", "names an account"),
        ("http://ana:secret@example.org/", "names an account"),
        ("http://example.org@127.0.0.1/", "names an account"),
        ("http://@example.org/", "names an account"),
        ("http://example.org:22/", "at a port that is not allowed"),
        ("http://example.org:0/", "at a port that is not allowed"),
        ("https://example.org:8443/", "at a port that is not allowed"),
    ],
)
def test_other_schemes_accounts_and_ports_are_refused(url, reason):
    with pytest.raises(UnreadableLink, match=reason):
        parse_link(url, PORTS)


@pytest.mark.parametrize(
    ("url", "understood"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a?b=c#d", "https://example.org/a?b=c"),
        ("https://example.org:80/a", "https://example.org:80/a"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://bücher.example/straße?q=ü&r=%20", "http://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC&r=%20"),
        ("http://日本。example/", "http://xn--wgv71a.example/"),
        ("http://\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45.org/", "http://example.org/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://①.1.1.1/", "http://1.1.1.1/"),
        ("http://[2606:4700:0:0::1]/", "http://[2606:4700::1]/"),
        ("http://my_site.example.org/", "http://my_site.example.org/"),
    ],
)
def test_a_link_is_normalised(url, understood):
    assert parse_link(url, PORTS).url == understood
    assert parse_link(understood, PORTS).url == understood


@given(st.text(max_size=60) | st.text(max_size=40).map("http://".__add__))
def test_any_text_is_parsed_or_refused(url):
    try:
        target = parse_link(url, PORTS)
    except UnreadableLink:
        return
    assert target.url.isascii()
    assert target.url.isprintable()
    assert " " not in target.url
    assert parse_link(target.url, PORTS) == target
