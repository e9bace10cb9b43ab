# Language level, warnings and sanitizers: the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)

# A machine that builds once gains most from few, large translation units, one that builds often
# from ccache: the first is a fresh machine, the second has ccache.
find_program(KV8_CCACHE ccache)
if(KV8_CCACHE)
  set(kv8_unity_default OFF)
else()
  set(kv8_unity_default ON)
endif()
option(KV8_UNITY "Compile several sources at once instead of using ccache" ${kv8_unity_default})
if(KV8_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
elseif(KV8_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KV8_CCACHE})
endif()

# -ffp-contract=off: two builds of one formula agree bit for bit; kernels ask for FMA by name.
# Designated initialisers leave members out on purpose, hence -Wno-missing-field-initializers.
add_compile_options(-Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -ffp-contract=off)
if(KV8_SANITIZE)
  add_compile_options(-fsanitize=${KV8_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KV8_SANITIZE})
endif()

# Fuzzers are led by coverage, so the libraries must report theirs too.
if(KV8_BUILD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
