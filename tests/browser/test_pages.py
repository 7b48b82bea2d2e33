"""Pages in a real browser, opened from disk as a reader opens them."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytestmark = pytest.mark.browser

ALL = ("run", "classes", "runs", "card")
FOCUSED = "document.activeElement.getAttribute('class') || document.activeElement.tagName"
NAMES = "(nodes) => nodes.map((node) => node.tagName)"
OPEN = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"

# Contrast after WCAG 2: text colour against the nearest background that is not transparent.
CONTRAST = """
(selector) => {
  const canvas = new OffscreenCanvas(1, 1);
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => {
      const s = c / 255;
      return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  let worst = {ratio: 21, text: ''};
  for (const node of document.querySelectorAll(selector)) {
    if (!node.checkVisibility() || !node.textContent.trim()) continue;
    const style = getComputedStyle(node);
    const ink = node.ownerSVGElement ? style.fill : style.color;
    const [a, b] = [light(rgba(ink)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = {ratio, text: node.textContent.trim().slice(0, 40)};
  }
  return worst;
}
"""
TEXT = (
    "p, li, dt, dd, h1, h2, h3, th, td, caption span, figcaption, summary, a:not(.skip), pre,"
    " code, .badge, .tag, .chart text, .legend"
)


@pytest.mark.parametrize("name", ALL)
def test_no_errors_no_requests_no_dialogs_and_hostile_names_are_text(look, name):
    watched = look(name)
    page = watched.page
    assert watched.complaints == []
    assert watched.requests == [watched.url]
    assert page.locator("script, img, iframe, object, embed, base, form").count() == 0
    assert page.evaluate("document.querySelectorAll('[onerror],[onload],[style]').length") == 0
    if name == "classes":
        assert page.locator(".confusion.numbered").count() == 3
    else:
        assert "<script>alert(1)</script>" in page.locator("body").inner_text()
        assert "49" not in page.locator("h1").inner_text()


@pytest.mark.parametrize("name", ALL)
def test_a_phone_never_scrolls_sideways(look, name):
    page = look(name, width=360).page
    page.evaluate(OPEN)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    outside = page.evaluate(
        """[...document.querySelectorAll('main h1, main p, main svg, .scroll, figure, pre')]
        .filter((n) => n.checkVisibility())
        .filter((n) => n.getBoundingClientRect().right > 360.5)
        .map((n) => n.outerHTML.slice(0, 80))"""
    )
    assert outside == []


@pytest.mark.parametrize("name", ["run", "classes"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(look, name, scheme):
    page = look(name, scheme=scheme).page
    page.evaluate(OPEN)
    worst = page.evaluate(CONTRAST, TEXT)
    assert worst["ratio"] >= 4.5, worst


def test_the_keyboard_reaches_everything(look):
    page = look("run").page
    page.keyboard.press("Tab")
    skip = page.locator(".skip").bounding_box()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached, page = [], look("run").page
    while len(reached) < 60 and "BODY" not in reached:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    assert reached[0] == "skip"
    assert skip["y"] >= 0
    assert {"scroll", "scroll tall", "SUMMARY", "PRE"} <= set(reached)
    page.locator("#scores .scroll").last.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(width.removesuffix("px")) >= 2


def test_a_phone_shows_what_is_covered_without_scrolling(look):
    page = look("run", width=390).page
    row = page.locator("#scores tbody tr").nth(2)
    box = row.locator("td").first.bounding_box()
    assert row.inner_text().split()[:3] == ["full-graph", "not", "covered"]
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 390


@pytest.mark.parametrize("name", ["run", "runs", "card"])
def test_landmarks_headings_and_tables_are_named(look, name):
    page = look(name).page
    for role in ("main", "banner", "contentinfo", "navigation"):
        assert page.get_by_role(role).count() == 1, role
    assert page.locator("h1").count() == 1
    levels = [int(title[1]) for title in page.locator("h1,h2,h3,h4").evaluate_all(NAMES)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    bare = "table:not(:has(caption)), th:not([scope]), section:not([aria-labelledby])"
    assert page.locator(bare).count() == 0
    assert page.locator(".scroll:not([tabindex]), .scroll:not([aria-label])").count() == 0


@pytest.mark.parametrize(
    ("name", "box", "cells"),
    [
        ("classes", "[aria-label^='Confusion matrix']", "tbody th"),
        ("run", "#scores .scroll", "thead th:first-child, tbody th"),
    ],
)
def test_names_of_rows_stay_in_sight(look, name, box, cells):
    page = look(name, width=390).page
    scrolled, *places = page.locator(box).first.evaluate(
        """(box, cells) => {
          box.scrollTo(200, 400);
          const at = (node) => node.getBoundingClientRect();
          const [rows, columns] = [cells, '.confusion thead th'].map(
            (names) => [...box.querySelectorAll(names)].map(at));
          return [box.scrollLeft, ...rows.map((row) => row.left - at(box).left),
                  ...columns.map((column) => column.top - at(box).top)];
        }""",
        cells,
    )
    assert scrolled > 100
    assert all(0 <= at < 3 for at in places)


def test_paper_gets_no_navigation_and_nothing_cut_off(look):
    page = look("run").page
    page.emulate_media(media="print")
    box = page.locator(".scroll").first
    assert page.locator("nav").is_hidden()
    assert box.evaluate("(n) => getComputedStyle(n).overflow") == "visible"


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_one_drawing_fits_every_width_with_letters_of_one_size(look, width):
    page = look("run", width=width).page
    outside = page.evaluate(
        """(width) => [...document.querySelectorAll('.chart text')]
        .map((n) => [n.getBoundingClientRect(), n.textContent])
        .filter(([box]) => box.left < 0 || box.right > width)
        .map(([box, words]) => [box.left, box.right, words])""",
        width,
    )
    assert outside == []
    size = page.locator(".chart text").first.evaluate("(n) => getComputedStyle(n).fontSize")
    assert size == "12.5px"
