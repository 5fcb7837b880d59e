"""Runs the programs in README.md, each in an empty folder, against peers that run."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.environ.get("COVEY_TEST_PEERS", "").split(os.pathsep)
SAID = [
    "0 0\n1 1\n2 4\n3 2\n4 2\n5 4\n6 1\n7 0\n",
    r"0\n1\n2\nfailed: three is odd - see peer explain \w+\.4\n4\n",
    "6 text.txt,6\n\n",
]


@unittest.skipUnless(PEERS[0], "COVEY_TEST_PEERS names no data folders of running peers")
class Readme(unittest.TestCase):
    def test_its_programs_do_what_they_say(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
            programs = re.findall("```python\n(.*?)```", f.read(), re.S)
        self.assertEqual(len(SAID), len(programs))
        for program, said in zip(programs, SAID):
            with self.subTest(program), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "program.py"), "w") as f:
                    f.write(program)
                env = {**os.environ, "PEER_DATA": PEERS[0], "PYTHONPATH": HERE}
                done = subprocess.run([sys.executable, "program.py"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
                self.assertRegex(done.stdout.decode(), "^" + said + "$")


if __name__ == "__main__":
    unittest.main()
