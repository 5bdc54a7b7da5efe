tessera_kernel:
        pushq   %rbp
        pushq   %r15
        pushq   %r14
        pushq   %r13
        pushq   %r12
        pushq   %rbx
        subq    $16, %rsp
        movq    8(%rdi), %rax
        movq    %rax, -88(%rsp)
        movq    24(%rdi), %r15
        movq    40(%rdi), %rbx
        movq    48(%rdi), %rax
        movq    %rax, -64(%rsp)
        movq    56(%rdi), %rax
        movq    %rax, -72(%rsp)
        movq    64(%rdi), %rax
        movq    %rax, -48(%rsp)
        movq    %r8, -120(%rsp)
        movl    (%r8), %eax
        movq    %rdx, -40(%rsp)
        cmpq    %rdx, %rsi
        jge     .LBB0_35
        testl   %eax, %eax
        jne     .LBB0_35
        leaq    15(%rbx), %rdi
        shrq    $4, %rdi
        movq    %rbx, %rax
        shlq    $5, %rax
        movq    %rax, 8(%rsp)
        movq    %r15, %r14
        shlq    $5, %r14
        vxorps  %xmm0, %xmm0, %xmm0
        vmovdqa64       .LCPI0_0(%rip), %zmm1
        vmovdqa64       .LCPI0_1(%rip), %zmm2
        movq    %rdi, -56(%rsp)
        movq    %r14, -24(%rsp)
.LBB0_3:
        vmovaps %zmm0, 960(%rcx)
        vmovaps %zmm0, 896(%rcx)
        vmovaps %zmm0, 832(%rcx)
        vmovaps %zmm0, 768(%rcx)
        vmovaps %zmm0, 704(%rcx)
        vmovaps %zmm0, 640(%rcx)
        vmovaps %zmm0, 576(%rcx)
        vmovaps %zmm0, 512(%rcx)
        vmovaps %zmm0, 448(%rcx)
        vmovaps %zmm0, 384(%rcx)
        vmovaps %zmm0, 320(%rcx)
        vmovaps %zmm0, 256(%rcx)
        vmovaps %zmm0, 192(%rcx)
        vmovaps %zmm0, 128(%rcx)
        vmovaps %zmm0, 64(%rcx)
        vmovaps %zmm0, (%rcx)
        movq    %rsi, %rax
        orq     %rdi, %rax
        shrq    $32, %rax
        je      .LBB0_4
        movq    %rsi, %rax
        xorl    %edx, %edx
        divq    %rdi
        movq    %rax, %rdi
        jmp     .LBB0_6
.LBB0_4:
        movl    %esi, %eax
        xorl    %edx, %edx
        divl    %edi
        movl    %eax, %edi
.LBB0_6:
        shlq    $4, %rdi
        movq    %rdx, %r8
        shlq    $4, %r8
        movq    -120(%rsp), %rax
        movl    (%rax), %eax
        testq   %r15, %r15
        movq    %rsi, -32(%rsp)
        jle     .LBB0_8
        testl   %eax, %eax
        jne     .LBB0_8
        shlq    $6, %rdx
        addq    -72(%rsp), %rdx
        movq    %rdi, %r9
        imulq   %r15, %r9
        movq    %rdi, %r12
        negq    %r12
        movq    -88(%rsp), %r10
        subq    %rdi, %r10
        movq    %rdi, -96(%rsp)
        testq   %rdi, %rdi
        setns   %sil
        cmpq    $16, %r10
        setge   %al
        andb    %sil, %al
        movb    %al, -121(%rsp)
        movq    %r8, %rsi
        negq    %rsi
        movq    %rsi, %rdi
        sarq    $63, %rdi
        andnq   %rsi, %rdi, %rsi
        cmpq    $16, %rsi
        movl    $16, %eax
        cmovgeq %rax, %rsi
        movq    %rbx, %r11
        subq    %r8, %r11
        movq    %r11, %rdi
        sarq    $63, %rdi
        andnq   %r11, %rdi, %rdi
        cmpq    $16, %rdi
        cmovgeq %rax, %rdi
        movq    %r8, -104(%rsp)
        testq   %r8, %r8
        vpbroadcastd    %esi, %zmm3
        setns   %sil
        movq    %r11, -112(%rsp)
        cmpq    $16, %r11
        setge   %al
        andb    %sil, %al
        movb    %al, -122(%rsp)
        movq    -64(%rsp), %rax
        leaq    (%rax,%r9,4), %rax
        movq    %rax, -16(%rsp)
        vpcmpltd        %zmm1, %zmm3, %k1
        vpbroadcastd    %edi, %zmm3
        vpcmpgtd        %zmm2, %zmm3, %k0 {%k1}
        vpxor   %xmm3, %xmm3, %xmm3
        vxorps  %xmm4, %xmm4, %xmm4
        vxorps  %xmm5, %xmm5, %xmm5
        vxorps  %xmm6, %xmm6, %xmm6
        vxorps  %xmm7, %xmm7, %xmm7
        vxorps  %xmm8, %xmm8, %xmm8
        vxorps  %xmm9, %xmm9, %xmm9
        vxorps  %xmm10, %xmm10, %xmm10
        vxorps  %xmm11, %xmm11, %xmm11
        vxorps  %xmm12, %xmm12, %xmm12
        vxorps  %xmm13, %xmm13, %xmm13
        vxorps  %xmm14, %xmm14, %xmm14
        vxorps  %xmm15, %xmm15, %xmm15
        vxorps  %xmm16, %xmm16, %xmm16
        vxorps  %xmm17, %xmm17, %xmm17
        vxorps  %xmm18, %xmm18, %xmm18
        xorl    %ebp, %ebp
        movq    %r12, -8(%rsp)
        movq    %rdx, -80(%rsp)
.LBB0_10:
        movq    %rbp, %rdi
        negq    %rdi
        movq    %rdi, %rax
        sarq    $63, %rax
        andnq   %rdi, %rax, %rsi
        cmpq    $16, %rsi
        movl    $16, %eax
        cmovgeq %rax, %rsi
        movq    %r15, %r11
        subq    %rbp, %r11
        movq    %r11, %r8
        sarq    $63, %r8
        andnq   %r11, %r8, %r8
        cmpq    $16, %r8
        cmovgeq %rax, %r8
        testq   %rbp, %rbp
        setns   %al
        cmpq    $16, %r11
        setge   %r9b
        andb    %al, %r9b
        movq    %rbp, (%rsp)
        movq    %rbp, %rax
        imulq   %rbx, %rax
        leaq    (%rdx,%rax,4), %rdx
        testb   %r9b, -122(%rsp)
        je      .LBB0_11
        xorl    %edi, %edi
        xorl    %r11d, %r11d
.LBB0_14:
        movq    %r11, %r12
        imulq   %rbx, %r12
        leaq    (%rdx,%r12,4), %r13
        vmovups (%rdx,%r12,4), %zmm19
        movq    8(%rsp), %rax
        prefetcht1      (%rax,%r13)
        leaq    2560(%rcx), %rax
        vmovaps %zmm19, (%rax,%rdi)
        incq    %r11
        addq    $64, %rdi
        cmpq    $1024, %rdi
        jne     .LBB0_14
        jmp     .LBB0_15
.LBB0_11:
        leaq    2560(%rcx), %r13
        xorl    %r12d, %r12d
.LBB0_12:
        movq    %r12, %r14
        imulq   %rbx, %r14
        cmpq    %rdi, %r12
        setge   %bpl
        cmpq    %r12, %r11
        setg    %al
        andb    %bpl, %al
        movzbl  %al, %eax
        negl    %eax
        kmovd   %eax, %k1
        kandw   %k0, %k1, %k1
        vmovups (%rdx,%r14,4), %zmm19 {%k1} {z}
        vmovaps %zmm19, (%r13)
        incq    %r12
        addq    $64, %r13
        cmpq    $16, %r12
        jne     .LBB0_12
.LBB0_15:
        movq    -16(%rsp), %rax
        movq    (%rsp), %rbp
        leaq    (%rax,%rbp,4), %rdi
        andb    -121(%rsp), %r9b
        cmpb    $1, %r9b
        movq    -8(%rsp), %r12
        jne     .LBB0_18
        xorl    %r9d, %r9d
        xorl    %esi, %esi
        leaq    1280(%rcx), %r11
        movq    -24(%rsp), %r14
        movq    -80(%rsp), %rdx
.LBB0_17:
        movq    %rsi, %rax
        imulq   %r15, %rax
        leaq    (%rdi,%rax,4), %r8
        vmovups (%rdi,%rax,4), %zmm19
        prefetcht1      (%r14,%r8)
        vmovaps %zmm19, (%r11,%r9)
        incq    %rsi
        addq    $64, %r9
        cmpq    $1024, %r9
        jne     .LBB0_17
        jmp     .LBB0_20
.LBB0_18:
        vpbroadcastd    %esi, %zmm19
        vpcmpltud       %zmm1, %zmm19, %k1
        vpbroadcastd    %r8d, %zmm19
        vpcmpnleud      %zmm2, %zmm19, %k1 {%k1}
        leaq    1280(%rcx), %r11
        movq    %r11, %r13
        xorl    %esi, %esi
        movq    -80(%rsp), %rdx
.LBB0_19:
        movq    %rsi, %rax
        imulq   %r15, %rax
        cmpq    %r12, %rsi
        setge   %r8b
        cmpq    %rsi, %r10
        setg    %r9b
        andb    %r8b, %r9b
        movzbl  %r9b, %r8d
        negl    %r8d
        kmovd   %r8d, %k2
        kandw   %k1, %k2, %k2
        vmovups (%rdi,%rax,4), %zmm19 {%k2} {z}
        vmovaps %zmm19, (%r13)
        incq    %rsi
        addq    $64, %r13
        cmpq    $16, %rsi
        jne     .LBB0_19
.LBB0_20:
        addq    $16, %rbp
        leaq    1024(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1088(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1152(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1216(%rcx), %rax
        prefetcht0      (%rax)
        prefetcht0      (%r11)
        leaq    1344(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1408(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1472(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1536(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1600(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1664(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1728(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1792(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1856(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1920(%rcx), %rax
        prefetcht0      (%rax)
        leaq    1984(%rcx), %rax
        prefetcht0      (%rax)
        movq    $-2, %r8
        movl    $656, %esi
.LBB0_21:
        vmovaps -64(%rcx,%rsi,4), %zmm19
        vmovaps (%rcx,%rsi,4), %zmm20
        vfmadd231ps     1288(%rcx,%r8,4){1to16}, %zmm19, %zmm18
        vfmadd231ps     1352(%rcx,%r8,4){1to16}, %zmm19, %zmm17
        vfmadd231ps     1416(%rcx,%r8,4){1to16}, %zmm19, %zmm16
        vfmadd231ps     1480(%rcx,%r8,4){1to16}, %zmm19, %zmm15
        vfmadd231ps     1544(%rcx,%r8,4){1to16}, %zmm19, %zmm14
        vfmadd231ps     1608(%rcx,%r8,4){1to16}, %zmm19, %zmm13
        vfmadd231ps     1672(%rcx,%r8,4){1to16}, %zmm19, %zmm12
        vfmadd231ps     1736(%rcx,%r8,4){1to16}, %zmm19, %zmm11
        vfmadd231ps     1800(%rcx,%r8,4){1to16}, %zmm19, %zmm10
        vfmadd231ps     1864(%rcx,%r8,4){1to16}, %zmm19, %zmm9
        vfmadd231ps     1928(%rcx,%r8,4){1to16}, %zmm19, %zmm8
        vfmadd231ps     1992(%rcx,%r8,4){1to16}, %zmm19, %zmm7
        vfmadd231ps     2056(%rcx,%r8,4){1to16}, %zmm19, %zmm6
        vfmadd231ps     2120(%rcx,%r8,4){1to16}, %zmm19, %zmm5
        vfmadd231ps     2184(%rcx,%r8,4){1to16}, %zmm19, %zmm4
        vfmadd231ps     2248(%rcx,%r8,4){1to16}, %zmm19, %zmm3
        vfmadd231ps     1292(%rcx,%r8,4){1to16}, %zmm20, %zmm18
        vfmadd231ps     1356(%rcx,%r8,4){1to16}, %zmm20, %zmm17
        vfmadd231ps     1420(%rcx,%r8,4){1to16}, %zmm20, %zmm16
        vfmadd231ps     1484(%rcx,%r8,4){1to16}, %zmm20, %zmm15
        vfmadd231ps     1548(%rcx,%r8,4){1to16}, %zmm20, %zmm14
        vfmadd231ps     1612(%rcx,%r8,4){1to16}, %zmm20, %zmm13
        vfmadd231ps     1676(%rcx,%r8,4){1to16}, %zmm20, %zmm12
        vfmadd231ps     1740(%rcx,%r8,4){1to16}, %zmm20, %zmm11
        vfmadd231ps     1804(%rcx,%r8,4){1to16}, %zmm20, %zmm10
        vfmadd231ps     1868(%rcx,%r8,4){1to16}, %zmm20, %zmm9
        vfmadd231ps     1932(%rcx,%r8,4){1to16}, %zmm20, %zmm8
        vfmadd231ps     1996(%rcx,%r8,4){1to16}, %zmm20, %zmm7
        vfmadd231ps     2060(%rcx,%r8,4){1to16}, %zmm20, %zmm6
        vfmadd231ps     2124(%rcx,%r8,4){1to16}, %zmm20, %zmm5
        vfmadd231ps     2188(%rcx,%r8,4){1to16}, %zmm20, %zmm4
        vfmadd231ps     2252(%rcx,%r8,4){1to16}, %zmm20, %zmm3
        addq    $2, %r8
        addq    $32, %rsi
        cmpq    $14, %r8
        jb      .LBB0_21
        vmovaps %zmm18, (%rcx)
        vmovaps %zmm17, 64(%rcx)
        vmovaps %zmm16, 128(%rcx)
        vmovaps %zmm15, 192(%rcx)
        vmovaps %zmm14, 256(%rcx)
        vmovaps %zmm13, 320(%rcx)
        vmovaps %zmm12, 384(%rcx)
        vmovaps %zmm11, 448(%rcx)
        vmovaps %zmm10, 512(%rcx)
        vmovaps %zmm9, 576(%rcx)
        vmovaps %zmm8, 640(%rcx)
        vmovaps %zmm7, 704(%rcx)
        vmovaps %zmm6, 768(%rcx)
        vmovaps %zmm5, 832(%rcx)
        vmovaps %zmm4, 896(%rcx)
        vmovaps %zmm3, 960(%rcx)
        movq    -120(%rsp), %rax
        movl    (%rax), %eax
        cmpq    %r15, %rbp
        jge     .LBB0_24
        testl   %eax, %eax
        je      .LBB0_10
.LBB0_24:
        movq    -96(%rsp), %rdi
        movq    -104(%rsp), %r8
        movq    -112(%rsp), %rsi
        jmp     .LBB0_25
.LBB0_8:
        movq    %rdi, %r12
        negq    %r12
        movq    -88(%rsp), %r10
        subq    %rdi, %r10
        movq    %rbx, %rsi
        subq    %r8, %rsi
.LBB0_25:
        movq    %rdi, %rax
        imulq   %rbx, %rax
        movq    -48(%rsp), %rdx
        leaq    (%rdx,%rax,4), %rax
        leaq    (%rax,%r8,4), %rdx
        testq   %r8, %r8
        js      .LBB0_31
        cmpq    $16, %rsi
        jl      .LBB0_31
        testq   %rdi, %rdi
        js      .LBB0_31
        cmpq    $16, %r10
        jl      .LBB0_31
        xorl    %eax, %eax
        xorl    %esi, %esi
.LBB0_30:
        movq    %rsi, %rdi
        imulq   %rbx, %rdi
        leaq    4(%rsi), %r8
        imulq   %rbx, %r8
        vmovaps (%rcx,%rax), %zmm3
        prefetcht0      (%rdx,%r8,4)
        vmovups %zmm3, (%rdx,%rdi,4)
        incq    %rsi
        addq    $64, %rax
        cmpq    $1024, %rax
        jne     .LBB0_30
        jmp     .LBB0_33
.LBB0_31:
        movq    %rsi, %rax
        sarq    $63, %rax
        andnq   %rsi, %rax, %rax
        cmpq    $16, %rax
        movl    $16, %edi
        cmovgeq %rdi, %rax
        negq    %r8
        movq    %r8, %rsi
        sarq    $63, %rsi
        andnq   %r8, %rsi, %rsi
        cmpq    $16, %rsi
        cmovgeq %rdi, %rsi
        vpbroadcastd    %esi, %zmm3
        vpcmpltd        %zmm1, %zmm3, %k1
        vpbroadcastd    %eax, %zmm3
        vpcmpgtd        %zmm2, %zmm3, %k0 {%k1}
        movq    %rcx, %rsi
        xorl    %edi, %edi
.LBB0_32:
        movq    %rdi, %rax
        imulq   %rbx, %rax
        cmpq    %r12, %rdi
        setge   %r8b
        cmpq    %rdi, %r10
        setg    %r9b
        andb    %r8b, %r9b
        leaq    4(%rdi), %r8
        imulq   %rbx, %r8
        prefetcht0      (%rdx,%r8,4)
        vmovaps (%rsi), %zmm3
        movzbl  %r9b, %r8d
        negl    %r8d
        kmovd   %r8d, %k1
        kandw   %k0, %k1, %k1
        vmovups %zmm3, (%rdx,%rax,4) {%k1}
        incq    %rdi
        addq    $64, %rsi
        cmpq    $16, %rdi
        jne     .LBB0_32
.LBB0_33:
        movq    -32(%rsp), %rsi
        incq    %rsi
        movq    -120(%rsp), %rax
        movl    (%rax), %eax
        cmpq    -40(%rsp), %rsi
        movq    -56(%rsp), %rdi
        jge     .LBB0_35
        testl   %eax, %eax
        je      .LBB0_3
.LBB0_35:
        xorl    %eax, %eax
        movq    -120(%rsp), %rcx
        cmpl    $0, (%rcx)
        setne   %al
        addq    $16, %rsp
        popq    %rbx
        popq    %r12
        popq    %r13
        popq    %r14
        popq    %r15
        popq    %rbp
        vzeroupper
        retq
.rodata
01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00 05 00 00 00 06 00 00 00 07 00 00 00 08 00 00 00
09 00 00 00 0a 00 00 00 0b 00 00 00 0c 00 00 00 0d 00 00 00 0e 00 00 00 0f 00 00 00 10 00 00 00
00 00 00 00 01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00 05 00 00 00 06 00 00 00 07 00 00 00
08 00 00 00 09 00 00 00 0a 00 00 00 0b 00 00 00 0c 00 00 00 0d 00 00 00 0e 00 00 00 0f 00 00 00
launch (0, 1, 1, False, False), memory (0, 3840), slots [(0, 0, 'A.shape[0]', 0), (0, 0, 'A.shape[0]', 0), (0, 0, 'A.shape[1]', 0), (0, 0, 'A.shape[1]', 0), (0, 0, 'B.shape[1]', 0), (0, 0, 'B.shape[1]', 0), (0, 0, '', 0), (1, 0, '', 0), (2, 0, '', 0)], windows []
