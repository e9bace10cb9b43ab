"""The checks of scripts/ find what they are there to find, and the tree as it is passes them."""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPO / "scripts"))
import check_layers  # noqa: E402
import check_sizes  # noqa: E402
import check_spec  # noqa: E402
import compile_device  # noqa: E402


class LayersTest(unittest.TestCase):
    def offences(self, check, files):
        """What `check` says of a tree that has these files."""
        with (
            mock.patch.object(check_layers, "tracked", lambda *patterns: sorted(files)),
            mock.patch.object(check_layers, "read", files.__getitem__),
        ):
            return list(check())

    def test_an_include_against_its_row(self):
        files = {"src/ops/a.cc": '#include "model/model.h"\n#include "tensor/dtype.h"\n'}
        (offence,) = self.offences(check_layers.check_includes, files)
        self.assertIn("model/model.h", offence)

    def test_a_folder_without_a_row(self):
        (offence,) = self.offences(check_layers.check_includes, {"src/new/a.cc": ""})
        self.assertIn("new", offence)

    def test_a_link_line_unlike_its_row(self):
        files = {"src/text/CMakeLists.txt": "kv8_library(text SOURCES a.cc DEPENDS base jinja model)"}
        (offence,) = self.offences(check_layers.check_links, files)
        self.assertIn("model", offence)

    def test_a_cuda_header_outside_its_folders(self):
        files = {
            "src/engine/a.cc": "#include <cuda_runtime.h>\n",
            "src/device/cuda/a.cc": "#include <cuda_runtime.h>\n",
        }
        (offence,) = self.offences(check_layers.check_cuda, files)
        self.assertIn("src/engine/a.cc", offence)

    def test_a_path_of_one_machine(self):
        path = "/ho" + "me/someone/kv8"
        (offence,) = self.offences(check_layers.check_machine_paths, {"README.md": f"see {path}\n"})
        self.assertIn("README.md:1", offence)


class EarlyLaunchTest(unittest.TestCase):
    def unready(self, *lines):
        body = "".join(f"\t{line}\n" for line in lines)
        return compile_device.unready(f".visible .entry kv8_x(\n\t.param .u64 a\n)\n{{\n{body}}}\n")

    def test_a_kernel_that_waits_first(self):
        before = ("ld.param.u64 %rd1, [a];", "prefetch.global.L2 [%rd1];", "@%p1 bra $L1;", "$L1:")
        self.assertEqual(self.unready(*before, "griddepcontrol.wait;", "ld.global.f32 %f1, [%rd1];"), [])

    def test_kernels_that_do_not(self):
        self.assertEqual(self.unready("ret;"), ["kv8_x"])
        self.assertEqual(self.unready("@%p1 griddepcontrol.wait;", "ret;"), ["kv8_x"])
        for early in (
            "ld.global.f32 %f1, [%rd1];",
            "st.global.f32 [%rd1], %f1;",
            "call.uni helper, (a);",
            "@%p1 ret;",
            "@%p1 bra $L1;",  # to a place behind the wait
        ):
            self.assertEqual(self.unready(early, "griddepcontrol.wait;", "$L1:"), ["kv8_x"], early)

    def test_a_kernel_that_is_not_found(self):
        self.assertEqual(len(compile_device.unready(".visible .entry kv8_x(a)\n{ ret; }")), 1)


class SizesTest(unittest.TestCase):
    def test_functions_are_measured_from_signature_to_brace(self):
        lines = [
            "namespace kv8 {",
            "Result<void> Long(int first,",
            "                  int second) {",
            "  if (first) {",
            "    second();",
            "  }",
            "}",
            "struct Plain {",
            "  void Member() {",
            "    return;",
            "  }",
            "};",
            "constexpr int kTable[] = {",
            "    1,",
            "};",
            "}  // namespace kv8",
        ]
        self.assertEqual(list(check_sizes.functions(lines)), [("Long", 2, 6), ("Member", 9, 3)])


    def test_device_functions_are_measured_too(self):
        lines = ["template <int kDim>", "__device__ void Kernel(int a,", "                       int b) {"]
        lines += ["  a += b;"] * 40 + ["}"]
        self.assertEqual(list(check_sizes.functions(lines)), [("Kernel", 1, 44)])
        with (
            mock.patch.object(check_sizes, "ROOT", pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))),
            mock.patch.object(check_sizes, "sources", lambda *patterns: ["a.cu", "b.cuh"]),
            mock.patch.object(check_sizes, "EXCEPTIONS", {}),
        ):
            for name in ("a.cu", "b.cuh"):
                (check_sizes.ROOT / name).write_text("\n".join(lines))
            self.assertEqual(len(list(check_sizes.offences())), 2)


class SpecTest(unittest.TestCase):
    def test_statements_and_tests_are_recognised(self):
        self.assertEqual(check_spec.STATEMENT.findall("- **NUM-3** Encoding MUST"), [("NUM", "3")])
        for name in ("TEST(Numerics, Num3_Rounds)", "TEST_P(X, Num3_A)", "def test_Num3_rounds(self)"):
            self.assertEqual(check_spec.TEST.findall(name), [("Num", "3")])


if __name__ == "__main__":
    unittest.main()
