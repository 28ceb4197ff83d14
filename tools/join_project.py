"""Install this folder in the Python that runs this program, as it stands: `import qlab` finds it here.

What an editable install would write, without a build: a `.pth` file, whose line is relative so that any name
of the folder will do in any locale, and the metadata by which tools know the project. pytest finds
`--submissions` in it, wherever pytest is started.
"""

import os
import shutil
import sysconfig
import tomllib
from pathlib import Path

packages = Path(sysconfig.get_path("purelib"))
project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]

(packages / "qlab_course.pth").write_text(os.path.relpath(".", packages) + "\n", encoding="utf-8")

for old in packages.glob("qlab_course-*.dist-info"):
    shutil.rmtree(old)
metadata = packages / f"qlab_course-{project['version']}.dist-info"
metadata.mkdir()
(metadata / "METADATA").write_text(
    f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
)
lines = []
for group, entries in project["entry-points"].items():
    lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
(metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
(metadata / "INSTALLER").write_text("join_project\n")
(metadata / "RECORD").write_text("")
