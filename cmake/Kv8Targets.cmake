# kv8_library(<folder> SOURCES ... [DEPENDS <folders>...] [LINK <external targets>...])
#   One static library kv8_<folder> per folder of src/. DEPENDS must equal the folder's row in
#   scripts/layers.json; scripts/check_layers.py compares the two and every #include.
function(kv8_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(kv8_${folder} STATIC ${ARG_SOURCES})
  add_library(kv8::${folder} ALIAS kv8_${folder})
  target_include_directories(kv8_${folder} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND kv8::)
  target_link_libraries(kv8_${folder} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_LINK})
endfunction()

# kv8_test(<name> [SEPARATE] SOURCES ... DEPENDS <folders>...)
#   One GoogleTest program. Tests find the repository's files through KV8_SOURCE_DIR.
#   SEPARATE: its files use one name for several things, so KV8_UNITY leaves them alone.
function(kv8_test name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND kv8::)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE KV8_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} ${ARG_LINK} GTest::gtest_main GTest::gmock)
  # Optimising a test costs more time than it saves.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(ARG_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300
    ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache")
endfunction()

# kv8_bench(<name> SOURCES ... DEPENDS <folders>...): one Google Benchmark program.
function(kv8_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND kv8::)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE KV8_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} ${ARG_LINK} benchmark::benchmark benchmark::benchmark_main)
endfunction()

# kv8_fuzz(<name> SOURCES ... DEPENDS <folders>...): one libFuzzer program; seeds in fuzz/corpus/<name>.
function(kv8_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND kv8::)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()
