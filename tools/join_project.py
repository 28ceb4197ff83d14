"""Make `import qlab` find this folder in the Python that runs this program.

The line in the `.pth` file is relative to it, so any name of the folder will do in any locale.
"""

import os
import sysconfig
from pathlib import Path

packages = sysconfig.get_path("purelib")
Path(packages, "qlab_course.pth").write_text(os.path.relpath(".", packages) + "\n", encoding="utf-8")
