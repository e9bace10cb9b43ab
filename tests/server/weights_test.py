"""A server whose weights change under it."""

import os
import pathlib
import shutil
import tempfile
import unittest

import kv8_server
from kv8_server import Client, Server, completion


class WeightsTest(unittest.TestCase):
    def test_Cli38_the_server_ends_with_an_error(self):
        root = pathlib.Path(tempfile.mkdtemp(prefix="kv8-server-"))
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        model = root / "model"
        shutil.copytree(kv8_server.MODEL, model)
        server = Server(model=model)
        self.addCleanup(server.kill)
        shard = model / "model-00002-of-00005.safetensors"
        # Replaced under its name: what is mapped is still the old file, and yet not the checkpoint.
        shutil.copy(shard, root / "new")
        os.replace(root / "new", shard)
        with Client(server.port) as client:
            status, _, answer = client.send(completion(100, model=model.name)).answer()
        self.assertEqual(status, 500, answer)
        self.assertNotIn(str(root).encode(), answer)  # server paths stay on the server
        self.assertEqual(server.wait(), 1)
        self.assertIn(f"{shard}: the weights changed while they were in use", server.log())


if __name__ == "__main__":
    unittest.main()
