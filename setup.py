"""Builds the library and the extension into the pip package, with the project's CMake.

Where CMake or a C compiler is missing the package is installed without them: it then
uses a libtrainglass.so that lies elsewhere (TRAINGLASS_LIBRARY), or does nothing and says
why. The rest of the description is in pyproject.toml.
"""

import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).parent.resolve()


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        folder = ROOT / "build" / "pip"
        try:
            subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DPROBE_ONLY=ON",
                            "-DCMAKE_BUILD_TYPE=Release"], check=True)
            subprocess.run(["cmake", "--build", folder], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.warn(f"libtrainglass.so was not built: {error}")
            return
        for file in (folder / "lib").glob("*.so"):
            shutil.copy2(file, pathlib.Path(self.build_lib) / "trainglass" / file.name)


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildWithLibrary}, distclass=PlatformDistribution)
