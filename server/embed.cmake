# Turns a text file into C: cmake -DINPUT=openapi.json -DOUTPUT=openapi.c -DNAME=openapi
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${NAME}.h\"\n\nconst unsigned char ${NAME}_text[] = {\n${bytes}};\n"
  "const size_t ${NAME}_size = sizeof(${NAME}_text);\n")
