# Language level, warnings and sanitizers: the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)

# A machine that builds once gains most from precompiled headers, one that builds often from ccache,
# which cannot see through them: the first is a fresh machine, the second has ccache.
find_program(KV8_CCACHE ccache)
if(KV8_CCACHE)
  set(kv8_precompile_default OFF)
else()
  set(kv8_precompile_default ON)
endif()
option(KV8_PRECOMPILE "Precompile large headers instead of using ccache" ${kv8_precompile_default})
if(KV8_CCACHE AND NOT KV8_PRECOMPILE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KV8_CCACHE})
endif()

# -ffp-contract=off: two builds of one formula agree bit for bit; kernels ask for FMA by name.
# Designated initialisers leave members out on purpose, hence -Wno-missing-field-initializers.
add_compile_options(-Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -ffp-contract=off)
if(KV8_PRECOMPILE)
  # Behind a precompiled header g++ 12 forgets which headers are the system's and warns about them.
  add_compile_options(-w)
endif()

if(KV8_SANITIZE)
  add_compile_options(-fsanitize=${KV8_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KV8_SANITIZE})
endif()

# Fuzzers are led by coverage, so the libraries must report theirs too.
if(KV8_BUILD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
