from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from privgcn.report.markup import clean, coordinate, element, finalize, joined

HOSTILE = "\"><img src=x onerror=alert(1)><script>alert('1')</script>&"


def test_text_and_attributes_are_escaped():
    written = element("text", HOSTILE, aria_label=HOSTILE)

    assert "<img" not in written
    assert "<script" not in written
    assert written.count('"') == 2


def test_markup_of_our_own_is_not_escaped_twice():
    assert element("g", element("text", "a&b")) == "<g><text>a&amp;b</text></g>"
    assert joined([element("br"), "<"]) == "<br/>&lt;"


def test_absent_attributes_are_left_out():
    assert element("rect", x=None, y=False, width=0, tabindex=0) == (
        '<rect width="0" tabindex="0"/>'
    )


def test_what_utf8_or_xml_cannot_hold_is_replaced():
    assert clean("a\x00b\ud800c") == "a\ufffdb?c"
    assert finalize(Markup("<b>")) == Markup("<b>")
    assert finalize("\x07") == "\ufffd"


def test_coordinates_have_no_negative_zero():
    assert [coordinate(x) for x in (-0.0001, 1.5, 2.0, -3.25)] == ["0", "1.5", "2", "-3.25"]


@given(st.text())
def test_no_text_breaks_out_of_an_element(text):
    inner = element("t", text, title=text)[len("<t") : -len("</t>")]

    assert inner.count("<") == 0
    assert inner.count(">") == 1
