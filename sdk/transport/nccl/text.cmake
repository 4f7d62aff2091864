# cmake -D FROM=FILE -D TO=FILE.c -P text.cmake: a text as a C string,
# rg__scale_ptx; an empty one without FROM.
set(text "")
if(FROM)
    file(READ ${FROM} text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\t" " " text "${text}")
    string(REPLACE "\n" "\\n\"\n\"" text "${text}")
endif()
file(WRITE ${TO} "extern const char rg__scale_ptx[];\n"
    "const char rg__scale_ptx[] = \"${text}\";\n")
