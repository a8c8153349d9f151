"""A hook of mkdocs. On a code host, pages link to any file of the repository; the site has only `docs/`.

Pages of the repository outside `docs/` become pages of the site (`PAGES`), and links to them lead there.
Other files that a page links to are copied into the site. A link to a file that does not exist stays as it
is, and mkdocs reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

#: Pages outside `docs/`, and their place in the site.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/README.md": "project/examples.md",
    "examples/deploy/README.md": "project/deploy.md",
    "examples/django_site/README.md": "project/django-site.md",
    "examples/from_celery/README.md": "project/from-celery.md",
    "examples/jsonl_store/README.md": "project/jsonl-store.md",
    "tests/torture/README.md": "project/torture.md",
}

#: What a search finds in guides comes first, and what it finds in these last: who searches mostly wants to do
#: something, and a guide says how.
LISTED_FIRST = ("guides/", "tutorial.md")
LISTED_LATER = ("reference/", "project/", "internals.md", "reliability")

_SITE_PAGES = {site: repository for repository, site in PAGES.items()}

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for repository, site in PAGES.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / repository)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    if here.startswith((*LISTED_FIRST, *LISTED_LATER)):
        page.meta["search"] = {"boost": 3 if here.startswith(LISTED_FIRST) else 0.1}

    def rewritten(link: re.Match[str]) -> str:
        target = _site_target(here, link[2], config, files)
        return link[0] if target is None else f"{link[1]}{target}{link[3]}"

    return _LINK.sub(rewritten, markdown)


def _site_target(here: str, target: str, config: MkDocsConfig, files: Files) -> str | None:
    """Where a link of the page `here` leads in the site. None: as it is written."""
    if ":" in target or target.startswith("/"):
        return None
    own = _SITE_PAGES.get(here, f"docs/{here}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
    if path.startswith("docs/"):
        site = path.removeprefix("docs/")
    elif path in PAGES:
        site = PAGES[path]
    elif (ROOT / path).is_file() and not path.endswith(".md"):
        site = f"project/files/{path}"
        if files.get_file_from_path(site) is None:
            files.append(File.generated(config, site, abs_src_path=str(ROOT / path)))
    else:
        return None
    return posixpath.relpath(site, posixpath.dirname(here) or ".")
